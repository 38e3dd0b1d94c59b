"""What runs inside the sandbox and outside the editable surface: budgets, tools, the scripted brain, graders.

Only the standard library, numpy and langgraph; no import from elsewhere in Lathe: this folder is mounted by itself.
"""
