"""Taking a run's weights home: checked, scored against what ships, shipped if they are better."""
