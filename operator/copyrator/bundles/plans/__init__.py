"""Jobs that plan a deploy: of the next version, of a version a user names, and to find drift."""
