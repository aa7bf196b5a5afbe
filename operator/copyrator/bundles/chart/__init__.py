"""What the chart of a bundle can do, from its templates."""
