"""Rules and Bundles as commands and the page show them: pure."""
