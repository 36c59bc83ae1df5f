! The transposition of a matrix in Fortran, by one all-to-all with derived types, as a two-dimensional FFT needs it
! (fft2d.c). The columns are spread over the ranks.
!
!     mpifort -O2 transpose.f90 -o transpose_f && mpirun -n 4 ./transpose_f
program transpose_f
    use mpi_f08
    implicit none
    integer, parameter :: columns = 30 ! of each rank
    integer, parameter :: bytes = 8
    double precision, allocatable :: from(:, :), to(:, :)
    type(MPI_Datatype) :: sent, received
    integer :: rank, ranks, n, row, column, wrong, total

    call MPI_Init()
    call MPI_Comm_rank(MPI_COMM_WORLD, rank)
    call MPI_Comm_size(MPI_COMM_WORLD, ranks)
    n = columns * ranks
    allocate(from(n, columns), to(n, columns))
    do column = 1, columns
        from(:, column) = [(value(row, rank * columns + column), row = 1, n)]
    end do
    to = -1

    call make_types()
    call MPI_Alltoall(from, 1, sent, to, 1, received, MPI_COMM_WORLD)

    wrong = 0
    do column = 1, columns
        do row = 1, n
            if (to(row, column) /= value(rank * columns + column, row)) wrong = wrong + 1
        end do
    end do
    call MPI_Type_free(sent)
    call MPI_Type_free(received)
    call MPI_Allreduce(wrong, total, 1, MPI_INTEGER, MPI_SUM, MPI_COMM_WORLD)
    if (rank == 0) print '(a,i0,a,i0,a,i0,a)', 'transpose_f: ', ranks, ' ranks, host memory, ', n * n, ' values checked, ', &
        total, ' wrong'
    call MPI_Finalize()
    if (total /= 0) stop 1

contains

    ! A block is sent column by column, and each of its columns is received as a row.
    subroutine make_types()
        type(MPI_Datatype) :: block, row_type, next_row, rows

        call MPI_Type_vector(columns, columns, n, MPI_DOUBLE_PRECISION, block)
        call MPI_Type_create_resized(block, 0_MPI_ADDRESS_KIND, int(columns * bytes, MPI_ADDRESS_KIND), sent)
        call MPI_Type_commit(sent)
        call MPI_Type_vector(columns, 1, n, MPI_DOUBLE_PRECISION, row_type)
        call MPI_Type_create_resized(row_type, 0_MPI_ADDRESS_KIND, int(bytes, MPI_ADDRESS_KIND), next_row)
        call MPI_Type_contiguous(columns, next_row, rows)
        call MPI_Type_create_resized(rows, 0_MPI_ADDRESS_KIND, int(columns * bytes, MPI_ADDRESS_KIND), received)
        call MPI_Type_commit(received)
        call MPI_Type_free(block)
        call MPI_Type_free(row_type)
        call MPI_Type_free(next_row)
        call MPI_Type_free(rows)
    end subroutine

    double precision function value(row, column)
        integer, intent(in) :: row, column

        value = row * 1000d0 + column
    end function
end program
