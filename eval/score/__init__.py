"""`gsvc score`: the benchmark's metrics of any two videos."""
