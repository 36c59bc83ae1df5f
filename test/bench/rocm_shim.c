/* An Open MPI that says that it does not support memory of ROCm. Preloaded by bench.sh. */
int MPIX_Query_rocm_support(void);

int MPIX_Query_rocm_support(void)
{
    return 0;
}
