baton bench --weights f16,q4
