"""Language-model work and agent code: LLM door, tools, graphs, memory, sandbox. No loop needs a model to run."""
