baton rnu
