baton help > a; baton --help > b; baton -h > c; cmp a b; cmp b c; baton; baton run --helpp
