"""Where elements lie: views, joining, splitting, rearranging."""
