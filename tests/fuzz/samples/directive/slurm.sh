#!/bin/sh
#SBATCH -N1 -n 4 --mem=4G --gres=gpu:h100:2 -o out-%4j_%x.txt
#SBATCH --time=1-02:03:04 --mail-type=END,FAIL --signal=B:USR1@60
#SBATCH --exclude="a,b[1-3]" --begin=now+1hour
srun true
#AX --late
