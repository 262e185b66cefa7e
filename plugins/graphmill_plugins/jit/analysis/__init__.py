"""What is found out about graphs and loops before anything is traced."""
