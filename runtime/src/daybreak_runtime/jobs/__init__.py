"""What every job of ours needs: places for files, problems in words, and a port that tells how far it is."""
