"""Planning: which settings spend bits, time, memory and energy best within a budget."""
