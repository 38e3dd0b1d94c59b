"""The attacks on the sandbox, the world they try to reach, and the judge that looks at it from outside."""
