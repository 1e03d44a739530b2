printf '5 6 7\n' | baton trace convert -
echo '[{"id": "a", "conversations": []}]' | baton trace info -
printf '0,2,1.5,Weibull,0.5,1\n' | baton trace convert -
printf '5 6 7\n' | baton trace cut - --start 1s
