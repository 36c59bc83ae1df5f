! All-gather in Fortran, with the module mpi_f08: blocking, in place, and non-blocking beside some work.
!
!     mpifort -O2 allgather.f90 -o allgather_f && mpirun -n 4 ./allgather_f
program allgather
    use mpi_f08
    implicit none
    integer, parameter :: block = 10000
    ! What MPI uses while the program goes on must be asynchronous.
    double precision, allocatable, asynchronous :: mine(:), all(:)
    double precision :: work
    type(MPI_Request) :: request
    integer :: rank, ranks, i, wrong, total
    logical :: done

    call MPI_Init()
    call MPI_Comm_rank(MPI_COMM_WORLD, rank)
    call MPI_Comm_size(MPI_COMM_WORLD, ranks)
    allocate(mine(block), all(block * ranks))

    all = -1
    mine = [(value(rank, i, 0), i = 1, block)]
    call MPI_Allgather(mine, block, MPI_DOUBLE_PRECISION, all, block, MPI_DOUBLE_PRECISION, MPI_COMM_WORLD)
    wrong = wrong_values(0)

    all = -1
    all(rank * block + 1 : (rank + 1) * block) = [(value(rank, i, 1), i = 1, block)]
    call MPI_Allgather(MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, all, block, MPI_DOUBLE_PRECISION, MPI_COMM_WORLD)
    wrong = wrong + wrong_values(1)

    all = -1
    mine = [(value(rank, i, 2), i = 1, block)]
    call MPI_Iallgather(mine, block, MPI_DOUBLE_PRECISION, all, block, MPI_DOUBLE_PRECISION, MPI_COMM_WORLD, request)
    work = 0
    do i = 1, block
        work = work + sqrt(mine(i))
        if (mod(i, 1000) == 0) call MPI_Test(request, done, MPI_STATUS_IGNORE)
    end do
    call MPI_Wait(request, MPI_STATUS_IGNORE)
    wrong = wrong + wrong_values(2)
    if (work <= 0) wrong = wrong + 1

    call MPI_Allreduce(wrong, total, 1, MPI_INTEGER, MPI_SUM, MPI_COMM_WORLD)
    if (rank == 0) print '(a,i0,a,i0,a,i0,a)', 'allgather_f: ', ranks, ' ranks, host memory, ', 3 * block * ranks * ranks, &
        ' values checked, ', total, ' wrong'
    call MPI_Finalize()
    if (total /= 0) stop 1

contains

    double precision function value(owner, i, round)
        integer, intent(in) :: owner, i, round

        value = (owner * 3 + round) * block + i
    end function

    integer function wrong_values(round)
        integer, intent(in) :: round
        integer :: owner, i

        wrong_values = 0
        do owner = 0, ranks - 1
            do i = 1, block
                if (all(owner * block + i) /= value(owner, i, round)) wrong_values = wrong_values + 1
            end do
        end do
    end function
end program
