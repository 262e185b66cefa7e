"""Handle the requests of all APIs: validate, queue and run them."""
