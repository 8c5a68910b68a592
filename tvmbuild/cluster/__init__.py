"""Steps on the workers of a Dask cluster; all that knows Dask, besides `tvmbuild worker`."""
