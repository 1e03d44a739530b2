baton --help
