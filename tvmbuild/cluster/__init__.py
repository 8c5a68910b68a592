"""Steps on the workers of a Dask cluster; the only code that uses Dask, besides `tvmbuild worker`."""
