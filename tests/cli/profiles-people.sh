baton profiles
