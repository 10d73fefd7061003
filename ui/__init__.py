"""Every interface of Sylva: the studio in the browser, the command line and the REST service."""
