baton up
