baton bench -p 512,many
