"""Group coders, with look-ahead and without: from source pictures to packets."""
