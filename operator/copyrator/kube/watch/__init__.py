"""Local pictures of objects, kept by lists and watches."""
