"""The library as a static site: a playground, the conformance page and the benchmark page, run by the visitor's browser."""
