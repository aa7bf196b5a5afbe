"""`copyrator ui`: a local web page of rules, copies and Bundles."""
