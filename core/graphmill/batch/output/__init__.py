"""Write the results of a batch run: `.csv`, `.jsonl`, `.npz`, `.parquet`."""
