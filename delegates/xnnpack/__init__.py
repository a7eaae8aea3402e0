"""XNNPACK as a delegate whose scratch is planned: the stock backend, its workspaces placed by us."""
