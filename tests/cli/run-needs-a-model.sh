baton run -p Hello
