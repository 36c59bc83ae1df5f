! A partitioned all-gather of libmpix_dma in Fortran: each partition is sent as soon as it is filled, and used as soon as it has
! come. The library's functions are those of C; requests and communicators have numbers in both languages.
!
!     mpifort -O2 partitions.f90 -o partitions_f -lmpix_dma && mpirun -n 4 ./partitions_f
!
! Handles of C are as wide as a pointer in Open MPI.
program partitions_f
    use mpi_f08
    use iso_c_binding
    implicit none
    interface
        integer(c_int) function MPIX_Pallgather_init(sb, sparts, scount, st, rb, rparts, rcount, rt, comm, info, request) &
            bind(c, name='MPIX_Pallgather_init')
            import
            type(c_ptr), value :: sb, rb, st, rt, comm, info
            integer(c_int), value :: sparts, scount, rparts, rcount
            type(c_ptr) :: request
        end function
        integer(c_int) function MPIX_Pready(part, request) bind(c, name='MPIX_Pready')
            import
            integer(c_int), value :: part
            type(c_ptr), value :: request
        end function
        integer(c_int) function MPIX_Parrived(request, part, flag) bind(c, name='MPIX_Parrived')
            import
            type(c_ptr), value :: request
            integer(c_int), value :: part
            integer(c_int) :: flag
        end function
        integer(c_int) function MPI_Start_c(request) bind(c, name='MPI_Start')
            import
            type(c_ptr) :: request
        end function
        integer(c_int) function MPIX_Wait(request, status) bind(c, name='MPIX_Wait')
            import
            type(c_ptr) :: request
            type(c_ptr), value :: status ! null is MPI_STATUS_IGNORE
        end function
        integer(c_int) function MPIX_Request_free(request) bind(c, name='MPIX_Request_free')
            import
            type(c_ptr) :: request
        end function
        type(c_ptr) function MPI_Comm_f2c_c(number) bind(c, name='MPI_Comm_f2c')
            import
            integer(c_int), value :: number
        end function
        type(c_ptr) function MPI_Type_f2c_c(number) bind(c, name='MPI_Type_f2c')
            import
            integer(c_int), value :: number
        end function
        type(c_ptr) function MPI_Info_f2c_c(number) bind(c, name='MPI_Info_f2c')
            import
            integer(c_int), value :: number
        end function
    end interface
    integer, parameter :: parts = 8, length = 1000, turns = 20
    double precision, allocatable, target :: from(:, :), to(:, :)
    type(c_ptr) :: request, real8
    integer :: rank, ranks, turn, part, wrong, total, failed

    call MPI_Init()
    call MPI_Comm_rank(MPI_COMM_WORLD, rank)
    call MPI_Comm_size(MPI_COMM_WORLD, ranks)
    allocate(from(length, 0:parts - 1), to(length, 0:ranks * parts - 1))
    to = -1
    real8 = MPI_Type_f2c_c(MPI_DOUBLE_PRECISION%MPI_VAL)
    failed = MPIX_Pallgather_init(c_loc(from), parts, length, real8, c_loc(to), parts, length, real8, &
        MPI_Comm_f2c_c(MPI_COMM_WORLD%MPI_VAL), MPI_Info_f2c_c(MPI_INFO_NULL%MPI_VAL), request)
    wrong = 0
    do turn = 1, turns
        failed = failed + MPI_Start_c(request)
        do part = parts - 1, 0, -1
            from(:, part) = value(rank * parts + part)
            failed = failed + MPIX_Pready(part, request)
        end do
        do part = 0, ranks * parts - 1
            call await(part)
            if (any(to(:, part) /= value(part))) wrong = wrong + 1
        end do
        failed = failed + MPIX_Wait(request, c_null_ptr)
    end do
    failed = failed + MPIX_Request_free(request)
    wrong = wrong + failed
    call MPI_Allreduce(wrong, total, 1, MPI_INTEGER, MPI_SUM, MPI_COMM_WORLD)
    if (rank == 0) print '(a,i0,a,i0,a,i0,a)', 'partitions_f: ', ranks, ' ranks, host memory, ', turns * ranks * ranks * parts, &
        ' values checked, ', total, ' wrong'
    call MPI_Finalize()
    if (total /= 0) stop 1

contains

    subroutine await(part)
        integer, intent(in) :: part
        integer(c_int) :: flag

        flag = 0
        do while (flag == 0)
            failed = failed + MPIX_Parrived(request, part, flag)
        end do
    end subroutine

    double precision function value(part)
        integer, intent(in) :: part

        value = turn * 1000d0 + part
    end function
end program
