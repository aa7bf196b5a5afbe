"""From a key to the outcome: gather what is known, plan (pure), write at most once."""
