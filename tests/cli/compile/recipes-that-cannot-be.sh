# Demands of a recipe that the model, the device or the text does not meet: each with both sides. Nothing is compiled.
exec 2>&1
m=$BATON_TEST_MODEL
for quant in w4a16:group=128 w8a8/4-30=w4a8 w8a8/0-3=w4a8:r4 w8a8/2+2=w4a8 w8a8:lut4,gptq w4a8:lut6 auto auto:ppl=0%; do
    baton compile -m "$m" -o x -q --quant "$quant"; echo $?
done
echo a few words > short
baton compile -m "$m" -o x -q --calib short; echo $?
for i in 1 2 3 4 5 6 7; do echo "$i a longer text of some more words"; done > short
baton compile -m "$m" -o x -q --calib short --quant w4a16:group=64,clip=max; echo $?
baton compile -m "$m" -o x -q --calib short --quant auto:ppl=1%; echo $?
test -e x && echo made
true
