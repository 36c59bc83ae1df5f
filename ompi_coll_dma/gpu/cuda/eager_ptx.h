/* The kernel of eager starts for CUDA, in PTX. tools/ptx.sh makes this file of eager.cu: do not edit it. */
/* clang-format off */
#define DMA_EAGER_PTX \
    ".version 6.0\n" \
    ".target sm_70\n" \
    ".address_size 64\n" \
    ".visible .entry dma_eager(\n" \
    ".param .align 8 .b8 dma_eager_param_0[680]\n" \
    ")\n" \
    "{\n" \
    ".reg .pred %p<52>;\n" \
    ".reg .b32 %r<65>;\n" \
    ".reg .b64 %rd<131>;\n" \
    "mov.b64 %rd49, dma_eager_param_0;\n" \
    "mov.u64 %rd1, %rd49;\n" \
    "mov.u32 %r1, %ctaid.x;\n" \
    "mov.u32 %r28, %ntid.x;\n" \
    "mov.u32 %r2, %tid.x;\n" \
    "mad.lo.s32 %r62, %r1, %r28, %r2;\n" \
    "mov.u32 %r4, %nctaid.x;\n" \
    "mov.u32 %r29, %ctaid.y;\n" \
    "cvt.u64.u32 %rd2, %r29;\n" \
    "mul.wide.u32 %rd50, %r29, 40;\n" \
    "add.s64 %rd51, %rd1, %rd50;\n" \
    "ld.param.u32 %r6, [dma_eager_param_0+36];\n" \
    "and.b32 %r30, %r6, 1;\n" \
    "setp.eq.b32 %p1, %r30, 1;\n" \
    "setp.eq.s32 %p2, %r29, 0;\n" \
    "and.pred %p3, %p1, %p2;\n" \
    "setp.eq.s32 %p4, %r62, 0;\n" \
    "and.pred %p5, %p3, %p4;\n" \
    "@!%p5 bra LBB0_2;\n" \
    "bra.uni LBB0_1;\n" \
    "LBB0_1:\n" \
    "ld.param.u64 %rd52, [%rd1];\n" \
    "ld.param.u32 %r31, [%rd1+32];\n" \
    "st.relaxed.sys.global.b32 [%rd52], %r31;\n" \
    "LBB0_2:\n" \
    "mul.lo.s32 %r5, %r4, %r28;\n" \
    "add.s64 %rd3, %rd51, 40;\n" \
    "mul.lo.s64 %rd53, %rd2, 40;\n" \
    "add.s64 %rd54, %rd1, %rd53;\n" \
    "ld.param.u64 %rd4, [%rd54+56];\n" \
    "setp.eq.s64 %p6, %rd4, 0;\n" \
    "@%p6 bra LBB0_22;\n" \
    "ld.param.u64 %rd55, [%rd1+24];\n" \
    "ld.param.u32 %r7, [%rd1+32];\n" \
    "and.b32 %r32, %r7, 1;\n" \
    "cvt.u64.u32 %rd56, %r32;\n" \
    "mul.lo.s64 %rd5, %rd55, %rd56;\n" \
    "ld.param.u32 %r8, [%rd54+72];\n" \
    "cvt.u64.u32 %rd60, %r8;\n" \
    "setp.eq.s32 %p7, %r8, 0;\n" \
    "add.s64 %rd61, %rd60, 7;\n" \
    "shr.u64 %rd62, %rd61, 3;\n" \
    "cvt.u32.u64 %r33, %rd62;\n" \
    "selp.b32 %r9, 1, %r33, %p7;\n" \
    "setp.le.u32 %p8, %r9, %r62;\n" \
    "@%p8 bra LBB0_10;\n" \
    "add.s64 %rd6, %rd5, %rd4;\n" \
    "cvt.u64.u32 %rd57, %r7;\n" \
    "shl.b64 %rd7, %rd57, 32;\n" \
    "ld.param.u64 %rd8, [%rd3];\n" \
    "mov.u32 %r61, %r62;\n" \
    "bra.uni LBB0_5;\n" \
    "LBB0_37:\n" \
    "ld.u64 %rd122, [%rd10];\n" \
    "LBB0_9:\n" \
    "cvt.u64.u32 %rd9, %r61;\n" \
    "cvt.u32.u64 %r38, %rd9;\n" \
    "and.b64 %rd73, %rd122, 4294967295;\n" \
    "or.b64 %rd71, %rd73, %rd7;\n" \
    "shr.u64 %rd74, %rd122, 32;\n" \
    "or.b64 %rd72, %rd74, %rd7;\n" \
    "shl.b64 %rd75, %rd9, 4;\n" \
    "add.s64 %rd70, %rd6, %rd75;\n" \
    "st.relaxed.sys.global.v2.b64 [%rd70], {%rd71, %rd72};\n" \
    "add.s32 %r61, %r38, %r5;\n" \
    "setp.lt.u32 %p16, %r61, %r9;\n" \
    "@%p16 bra LBB0_5;\n" \
    "bra.uni LBB0_10;\n" \
    "LBB0_5:\n" \
    "mul.wide.u32 %rd63, %r61, 8;\n" \
    "add.s64 %rd10, %rd8, %rd63;\n" \
    "shl.b32 %r11, %r61, 3;\n" \
    "max.u32 %r34, %r8, %r11;\n" \
    "sub.s32 %r12, %r34, %r11;\n" \
    "setp.gt.u32 %p9, %r12, 7;\n" \
    "and.b64 %rd64, %rd10, 7;\n" \
    "setp.eq.s64 %p10, %rd64, 0;\n" \
    "and.pred %p11, %p9, %p10;\n" \
    "@%p11 bra LBB0_37;\n" \
    "setp.ge.u32 %p12, %r11, %r8;\n" \
    "mov.u64 %rd122, 0;\n" \
    "@%p12 bra LBB0_9;\n" \
    "mov.u64 %rd119, 0;\n" \
    "mov.u64 %rd120, %rd119;\n" \
    "mov.u64 %rd122, %rd119;\n" \
    "LBB0_8:\n" \
    "add.s64 %rd67, %rd10, %rd120;\n" \
    "ld.u8 %rd68, [%rd67];\n" \
    "cvt.u32.u64 %r35, %rd119;\n" \
    "shl.b64 %rd69, %rd68, %r35;\n" \
    "or.b64 %rd122, %rd69, %rd122;\n" \
    "add.s64 %rd16, %rd120, 1;\n" \
    "cvt.u32.u64 %r36, %rd120;\n" \
    "setp.lt.u32 %p13, %r36, 7;\n" \
    "cvt.u32.u64 %r37, %rd16;\n" \
    "setp.lt.u32 %p14, %r37, %r12;\n" \
    "and.pred %p15, %p13, %p14;\n" \
    "add.s64 %rd119, %rd119, 8;\n" \
    "mov.u64 %rd120, %rd16;\n" \
    "@%p15 bra LBB0_8;\n" \
    "bra.uni LBB0_9;\n" \
    "LBB0_10:\n" \
    "ld.param.u32 %r14, [%rd54+76];\n" \
    "cvt.u64.u32 %rd79, %r14;\n" \
    "setp.eq.s32 %p17, %r14, 0;\n" \
    "add.s64 %rd80, %rd79, 7;\n" \
    "shr.u64 %rd81, %rd80, 3;\n" \
    "cvt.u32.u64 %r39, %rd81;\n" \
    "selp.b32 %r15, 1, %r39, %p17;\n" \
    "setp.le.u32 %p18, %r15, %r62;\n" \
    "@%p18 bra LBB0_33;\n" \
    "mov.u64 %rd118, 0;\n" \
    "ld.param.u64 %rd78, [%rd54+64];\n" \
    "add.s64 %rd19, %rd78, %rd5;\n" \
    "add.s64 %rd20, %rd54, 48;\n" \
    "ld.param.u64 %rd90, [%rd1+8];\n" \
    "mov.u32 %r40, 1;\n" \
    "bra.uni LBB0_12;\n" \
    "LBB0_22:\n" \
    "ld.param.u32 %r22, [%rd54+72];\n" \
    "cvt.u64.u32 %rd100, %r22;\n" \
    "setp.eq.s32 %p32, %r22, 0;\n" \
    "add.s64 %rd101, %rd100, 7;\n" \
    "shr.u64 %rd102, %rd101, 3;\n" \
    "cvt.u32.u64 %r49, %rd102;\n" \
    "selp.b32 %r23, 1, %r49, %p32;\n" \
    "setp.le.u32 %p33, %r23, %r62;\n" \
    "@%p33 bra LBB0_33;\n" \
    "ld.param.u64 %rd32, [%rd3];\n" \
    "ld.param.u64 %rd33, [%rd54+48];\n" \
    "setp.eq.s64 %p34, %rd32, %rd33;\n" \
    "@%p34 bra LBB0_33;\n" \
    "bra.uni LBB0_24;\n" \
    "LBB0_33:\n" \
    "and.b32 %r57, %r6, 2;\n" \
    "setp.eq.s32 %p50, %r57, 0;\n" \
    "@%p50 bra LBB0_36;\n" \
    "bar.sync 0;\n" \
    "setp.ne.s32 %p51, %r2, 0;\n" \
    "@%p51 bra LBB0_36;\n" \
    "cvt.u32.u64 %r58, %rd2;\n" \
    "mad.lo.s32 %r59, %r58, %r4, %r1;\n" \
    "mul.wide.u32 %rd48, %r59, 4;\n" \
    "ld.param.u64 %rd117, [%rd1+16];\n" \
    "ld.param.u32 %r60, [%rd1+32];\n" \
    "add.s64 %rd116, %rd117, %rd48;\n" \
    "st.release.sys.global.b32 [%rd116], %r60;\n" \
    "LBB0_36:\n" \
    "ret;\n" \
    "LBB0_40:\n" \
    "st.u64 [%rd34], %rd128;\n" \
    "LBB0_32:\n" \
    "add.s32 %r62, %r62, %r5;\n" \
    "setp.lt.u32 %p49, %r62, %r23;\n" \
    "@%p49 bra LBB0_24;\n" \
    "bra.uni LBB0_33;\n" \
    "LBB0_24:\n" \
    "mul.wide.u32 %rd105, %r62, 8;\n" \
    "add.s64 %rd35, %rd32, %rd105;\n" \
    "shl.b32 %r25, %r62, 3;\n" \
    "max.u32 %r50, %r22, %r25;\n" \
    "sub.s32 %r26, %r50, %r25;\n" \
    "setp.gt.u32 %p35, %r26, 7;\n" \
    "and.b64 %rd106, %rd35, 7;\n" \
    "setp.eq.s64 %p36, %rd106, 0;\n" \
    "and.pred %p37, %p35, %p36;\n" \
    "@%p37 bra LBB0_39;\n" \
    "bra.uni LBB0_25;\n" \
    "LBB0_39:\n" \
    "ld.u64 %rd128, [%rd35];\n" \
    "bra.uni LBB0_28;\n" \
    "LBB0_25:\n" \
    "setp.ge.u32 %p38, %r25, %r22;\n" \
    "mov.u64 %rd128, 0;\n" \
    "@%p38 bra LBB0_28;\n" \
    "mov.u64 %rd125, 0;\n" \
    "mov.u64 %rd126, %rd125;\n" \
    "mov.u64 %rd128, %rd125;\n" \
    "LBB0_27:\n" \
    "add.s64 %rd109, %rd35, %rd126;\n" \
    "ld.u8 %rd110, [%rd109];\n" \
    "cvt.u32.u64 %r51, %rd125;\n" \
    "shl.b64 %rd111, %rd110, %r51;\n" \
    "or.b64 %rd128, %rd111, %rd128;\n" \
    "add.s64 %rd41, %rd126, 1;\n" \
    "cvt.u32.u64 %r52, %rd126;\n" \
    "setp.lt.u32 %p39, %r52, 7;\n" \
    "cvt.u32.u64 %r53, %rd41;\n" \
    "setp.lt.u32 %p40, %r53, %r26;\n" \
    "and.pred %p41, %p39, %p40;\n" \
    "add.s64 %rd125, %rd125, 8;\n" \
    "mov.u64 %rd126, %rd41;\n" \
    "@%p41 bra LBB0_27;\n" \
    "LBB0_28:\n" \
    "add.s64 %rd34, %rd33, %rd105;\n" \
    "and.b64 %rd112, %rd34, 7;\n" \
    "setp.eq.s64 %p43, %rd112, 0;\n" \
    "and.pred %p44, %p35, %p43;\n" \
    "@%p44 bra LBB0_40;\n" \
    "setp.ge.u32 %p45, %r25, %r22;\n" \
    "@%p45 bra LBB0_32;\n" \
    "mov.u64 %rd129, 0;\n" \
    "mov.u64 %rd130, %rd129;\n" \
    "LBB0_31:\n" \
    "cvt.u32.u64 %r54, %rd129;\n" \
    "shr.u64 %rd114, %rd128, %r54;\n" \
    "add.s64 %rd115, %rd34, %rd130;\n" \
    "st.u8 [%rd115], %rd114;\n" \
    "add.s64 %rd46, %rd130, 1;\n" \
    "cvt.u32.u64 %r55, %rd130;\n" \
    "setp.lt.u32 %p46, %r55, 7;\n" \
    "cvt.u32.u64 %r56, %rd46;\n" \
    "setp.lt.u32 %p47, %r56, %r26;\n" \
    "and.pred %p48, %p46, %p47;\n" \
    "add.s64 %rd129, %rd129, 8;\n" \
    "mov.u64 %rd130, %rd46;\n" \
    "@%p48 bra LBB0_31;\n" \
    "bra.uni LBB0_32;\n" \
    "LBB0_38:\n" \
    "st.u64 [%rd27], %rd26;\n" \
    "LBB0_21:\n" \
    "add.s32 %r62, %r62, %r5;\n" \
    "setp.lt.u32 %p31, %r62, %r15;\n" \
    "@%p31 bra LBB0_12;\n" \
    "bra.uni LBB0_33;\n" \
    "LBB0_12:\n" \
    "mul.wide.u32 %rd22, %r62, 8;\n" \
    "mul.wide.u32 %rd84, %r62, 16;\n" \
    "add.s64 %rd23, %rd19, %rd84;\n" \
    "mov.u32 %r63, %r40;\n" \
    "bra.uni LBB0_13;\n" \
    "LBB0_16:\n" \
    "add.s32 %r63, %r63, 1;\n" \
    "LBB0_13:\n" \
    "ld.relaxed.sys.global.v2.b64 {%rd85, %rd86}, [%rd23];\n" \
    "shr.u64 %rd88, %rd85, 32;\n" \
    "cvt.u32.u64 %r41, %rd88;\n" \
    "setp.eq.s32 %p19, %r7, %r41;\n" \
    "shr.u64 %rd89, %rd86, 32;\n" \
    "cvt.u32.u64 %r42, %rd89;\n" \
    "setp.eq.s32 %p20, %r7, %r42;\n" \
    "and.pred %p21, %p19, %p20;\n" \
    "@%p21 bra LBB0_17;\n" \
    "and.b32 %r43, %r63, 8191;\n" \
    "setp.ne.s32 %p22, %r43, 0;\n" \
    "@%p22 bra LBB0_16;\n" \
    "ld.relaxed.sys.global.b32 %r44, [%rd90];\n" \
    "setp.ne.s32 %p23, %r44, 0;\n" \
    "@%p23 bra LBB0_33;\n" \
    "bra.uni LBB0_16;\n" \
    "LBB0_17:\n" \
    "ld.param.u64 %rd91, [%rd20];\n" \
    "and.b64 %rd92, %rd85, 4294967295;\n" \
    "shl.b64 %rd93, %rd86, 32;\n" \
    "or.b64 %rd26, %rd92, %rd93;\n" \
    "add.s64 %rd27, %rd91, %rd22;\n" \
    "shl.b32 %r19, %r62, 3;\n" \
    "max.u32 %r45, %r14, %r19;\n" \
    "sub.s32 %r20, %r45, %r19;\n" \
    "setp.gt.u32 %p24, %r20, 7;\n" \
    "and.b64 %rd94, %rd27, 7;\n" \
    "setp.eq.s64 %p25, %rd94, 0;\n" \
    "and.pred %p26, %p24, %p25;\n" \
    "@%p26 bra LBB0_38;\n" \
    "setp.ge.u32 %p27, %r19, %r14;\n" \
    "@%p27 bra LBB0_21;\n" \
    "mov.u64 %rd123, %rd118;\n" \
    "mov.u64 %rd124, %rd118;\n" \
    "LBB0_20:\n" \
    "cvt.u32.u64 %r46, %rd123;\n" \
    "shr.u64 %rd96, %rd26, %r46;\n" \
    "add.s64 %rd97, %rd27, %rd124;\n" \
    "st.u8 [%rd97], %rd96;\n" \
    "add.s64 %rd30, %rd124, 1;\n" \
    "cvt.u32.u64 %r47, %rd124;\n" \
    "setp.lt.u32 %p28, %r47, 7;\n" \
    "cvt.u32.u64 %r48, %rd30;\n" \
    "setp.lt.u32 %p29, %r48, %r20;\n" \
    "and.pred %p30, %p28, %p29;\n" \
    "add.s64 %rd123, %rd123, 8;\n" \
    "mov.u64 %rd124, %rd30;\n" \
    "@%p30 bra LBB0_20;\n" \
    "bra.uni LBB0_21;\n" \
    "}\n"
/* clang-format on */
