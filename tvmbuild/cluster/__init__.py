"""The run of steps on the workers of a Dask cluster. Only this package and `tvmbuild worker` use Dask."""
