"""What messaging means: values and rules, without I/O, clock or chance."""
