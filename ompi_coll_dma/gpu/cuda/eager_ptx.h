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
    ".reg .pred %p<54>;\n" \
    ".reg .b32 %r<73>;\n" \
    ".reg .b64 %rd<138>;\n" \
    "mov.b64 %rd48, dma_eager_param_0;\n" \
    "mov.u64 %rd1, %rd48;\n" \
    "mov.u32 %r1, %ctaid.x;\n" \
    "mov.u32 %r28, %ntid.x;\n" \
    "mov.u32 %r2, %tid.x;\n" \
    "mad.lo.s32 %r71, %r1, %r28, %r2;\n" \
    "mov.u32 %r4, %nctaid.x;\n" \
    "mul.lo.s32 %r5, %r4, %r28;\n" \
    "mov.u32 %r29, %ctaid.y;\n" \
    "cvt.u64.u32 %rd2, %r29;\n" \
    "ld.param.u32 %r6, [dma_eager_param_0+36];\n" \
    "and.b32 %r30, %r6, 1;\n" \
    "setp.eq.b32 %p1, %r30, 1;\n" \
    "mov.pred %p2, 0;\n" \
    "xor.pred %p3, %p1, %p2;\n" \
    "not.pred %p4, %p3;\n" \
    "mul.lo.s64 %rd124, %rd2, 40;\n" \
    "cvt.u32.u64 %r68, %rd2;\n" \
    "@%p4 bra LBB0_23;\n" \
    "mul.wide.u32 %rd49, %r29, 40;\n" \
    "add.s64 %rd50, %rd1, %rd49;\n" \
    "or.b32 %r32, %r68, %r71;\n" \
    "setp.ne.s32 %p5, %r32, 0;\n" \
    "@%p5 bra LBB0_3;\n" \
    "ld.param.u64 %rd51, [%rd1];\n" \
    "ld.param.u32 %r33, [%rd1+32];\n" \
    "st.relaxed.sys.global.b32 [%rd51], %r33;\n" \
    "LBB0_3:\n" \
    "add.s64 %rd3, %rd50, 40;\n" \
    "add.s64 %rd53, %rd1, %rd124;\n" \
    "ld.param.u64 %rd4, [%rd53+56];\n" \
    "setp.eq.s64 %p6, %rd4, 0;\n" \
    "@%p6 bra LBB0_11;\n" \
    "ld.param.u32 %r7, [%rd53+72];\n" \
    "cvt.u64.u32 %rd60, %r7;\n" \
    "setp.eq.s32 %p7, %r7, 0;\n" \
    "add.s64 %rd61, %rd60, 7;\n" \
    "shr.u64 %rd62, %rd61, 3;\n" \
    "cvt.u32.u64 %r36, %rd62;\n" \
    "selp.b32 %r8, 1, %r36, %p7;\n" \
    "setp.le.u32 %p8, %r8, %r71;\n" \
    "@%p8 bra LBB0_23;\n" \
    "mov.u64 %rd125, 0;\n" \
    "ld.param.u64 %rd54, [%rd1+24];\n" \
    "ld.param.u32 %r34, [%rd1+32];\n" \
    "and.b32 %r35, %r34, 1;\n" \
    "cvt.u64.u32 %rd55, %r35;\n" \
    "mul.lo.s64 %rd56, %rd54, %rd55;\n" \
    "add.s64 %rd5, %rd56, %rd4;\n" \
    "cvt.u64.u32 %rd57, %r34;\n" \
    "shl.b64 %rd6, %rd57, 32;\n" \
    "ld.param.u64 %rd7, [%rd3];\n" \
    "mov.u32 %r69, %r71;\n" \
    "bra.uni LBB0_6;\n" \
    "LBB0_41:\n" \
    "ld.u64 %rd129, [%rd9];\n" \
    "LBB0_10:\n" \
    "cvt.u64.u32 %rd8, %r69;\n" \
    "cvt.u32.u64 %r41, %rd8;\n" \
    "and.b64 %rd73, %rd129, 4294967295;\n" \
    "or.b64 %rd71, %rd73, %rd6;\n" \
    "shr.u64 %rd74, %rd129, 32;\n" \
    "or.b64 %rd72, %rd74, %rd6;\n" \
    "shl.b64 %rd75, %rd8, 4;\n" \
    "add.s64 %rd70, %rd5, %rd75;\n" \
    "st.relaxed.sys.global.v2.b64 [%rd70], {%rd71, %rd72};\n" \
    "add.s32 %r69, %r41, %r5;\n" \
    "setp.lt.u32 %p16, %r69, %r8;\n" \
    "@%p16 bra LBB0_6;\n" \
    "bra.uni LBB0_23;\n" \
    "LBB0_6:\n" \
    "mul.wide.u32 %rd63, %r69, 8;\n" \
    "add.s64 %rd9, %rd7, %rd63;\n" \
    "shl.b32 %r10, %r69, 3;\n" \
    "max.u32 %r37, %r7, %r10;\n" \
    "sub.s32 %r11, %r37, %r10;\n" \
    "setp.gt.u32 %p9, %r11, 7;\n" \
    "and.b64 %rd64, %rd9, 7;\n" \
    "setp.eq.s64 %p10, %rd64, 0;\n" \
    "and.pred %p11, %p9, %p10;\n" \
    "@%p11 bra LBB0_41;\n" \
    "setp.ge.u32 %p12, %r10, %r7;\n" \
    "mov.u64 %rd129, %rd125;\n" \
    "@%p12 bra LBB0_10;\n" \
    "mov.u64 %rd126, 0;\n" \
    "mov.u64 %rd127, %rd126;\n" \
    "mov.u64 %rd129, %rd126;\n" \
    "LBB0_9:\n" \
    "add.s64 %rd67, %rd9, %rd127;\n" \
    "ld.u8 %rd68, [%rd67];\n" \
    "cvt.u32.u64 %r38, %rd126;\n" \
    "shl.b64 %rd69, %rd68, %r38;\n" \
    "or.b64 %rd129, %rd69, %rd129;\n" \
    "add.s64 %rd15, %rd127, 1;\n" \
    "cvt.u32.u64 %r39, %rd127;\n" \
    "setp.lt.u32 %p13, %r39, 7;\n" \
    "cvt.u32.u64 %r40, %rd15;\n" \
    "setp.lt.u32 %p14, %r40, %r11;\n" \
    "and.pred %p15, %p13, %p14;\n" \
    "add.s64 %rd126, %rd126, 8;\n" \
    "mov.u64 %rd127, %rd15;\n" \
    "@%p15 bra LBB0_9;\n" \
    "bra.uni LBB0_10;\n" \
    "LBB0_11:\n" \
    "ld.param.v2.u32 {%r42, %r43}, [%rd53+72];\n" \
    "min.u32 %r13, %r42, %r43;\n" \
    "cvt.u64.u32 %rd78, %r13;\n" \
    "setp.eq.s32 %p17, %r13, 0;\n" \
    "add.s64 %rd79, %rd78, 7;\n" \
    "shr.u64 %rd80, %rd79, 3;\n" \
    "cvt.u32.u64 %r44, %rd80;\n" \
    "selp.b32 %r14, 1, %r44, %p17;\n" \
    "setp.le.u32 %p18, %r14, %r71;\n" \
    "@%p18 bra LBB0_23;\n" \
    "ld.param.u64 %rd18, [%rd3];\n" \
    "ld.param.u64 %rd19, [%rd53+48];\n" \
    "setp.eq.s64 %p19, %rd18, %rd19;\n" \
    "@%p19 bra LBB0_23;\n" \
    "bra.uni LBB0_13;\n" \
    "LBB0_23:\n" \
    "and.b32 %r52, %r6, 2;\n" \
    "setp.eq.s32 %p35, %r52, 0;\n" \
    "@%p35 bra LBB0_37;\n" \
    "add.s64 %rd95, %rd1, %rd124;\n" \
    "ld.param.u64 %rd96, [%rd95+56];\n" \
    "setp.eq.s64 %p36, %rd96, 0;\n" \
    "@%p36 bra LBB0_37;\n" \
    "ld.param.u32 %r20, [%rd95+76];\n" \
    "cvt.u64.u32 %rd103, %r20;\n" \
    "setp.eq.s32 %p37, %r20, 0;\n" \
    "add.s64 %rd104, %rd103, 7;\n" \
    "shr.u64 %rd105, %rd104, 3;\n" \
    "cvt.u32.u64 %r54, %rd105;\n" \
    "selp.b32 %r21, 1, %r54, %p37;\n" \
    "setp.le.u32 %p38, %r21, %r71;\n" \
    "@%p38 bra LBB0_37;\n" \
    "ld.param.u64 %rd99, [%rd95+64];\n" \
    "ld.param.u32 %r19, [%rd1+32];\n" \
    "and.b32 %r53, %r19, 1;\n" \
    "cvt.u64.u32 %rd100, %r53;\n" \
    "ld.param.u64 %rd101, [%rd1+24];\n" \
    "mul.lo.s64 %rd102, %rd101, %rd100;\n" \
    "add.s64 %rd34, %rd102, %rd99;\n" \
    "add.s64 %rd35, %rd95, 48;\n" \
    "ld.param.u64 %rd114, [%rd1+8];\n" \
    "mov.u32 %r55, 1;\n" \
    "bra.uni LBB0_27;\n" \
    "LBB0_44:\n" \
    "st.u64 [%rd42], %rd41;\n" \
    "LBB0_36:\n" \
    "add.s32 %r71, %r71, %r5;\n" \
    "setp.lt.u32 %p51, %r71, %r21;\n" \
    "@%p51 bra LBB0_27;\n" \
    "bra.uni LBB0_37;\n" \
    "LBB0_27:\n" \
    "mul.wide.u32 %rd37, %r71, 8;\n" \
    "mul.wide.u32 %rd108, %r71, 16;\n" \
    "add.s64 %rd38, %rd34, %rd108;\n" \
    "mov.u32 %r72, %r55;\n" \
    "bra.uni LBB0_28;\n" \
    "LBB0_31:\n" \
    "add.s32 %r72, %r72, 1;\n" \
    "LBB0_28:\n" \
    "ld.relaxed.sys.global.v2.b64 {%rd109, %rd110}, [%rd38];\n" \
    "shr.u64 %rd112, %rd109, 32;\n" \
    "cvt.u32.u64 %r56, %rd112;\n" \
    "setp.eq.s32 %p39, %r19, %r56;\n" \
    "shr.u64 %rd113, %rd110, 32;\n" \
    "cvt.u32.u64 %r57, %rd113;\n" \
    "setp.eq.s32 %p40, %r19, %r57;\n" \
    "and.pred %p41, %p39, %p40;\n" \
    "@%p41 bra LBB0_32;\n" \
    "and.b32 %r58, %r72, 8191;\n" \
    "setp.ne.s32 %p42, %r58, 0;\n" \
    "@%p42 bra LBB0_31;\n" \
    "ld.relaxed.sys.global.b32 %r59, [%rd114];\n" \
    "setp.ne.s32 %p43, %r59, 0;\n" \
    "@%p43 bra LBB0_37;\n" \
    "bra.uni LBB0_31;\n" \
    "LBB0_32:\n" \
    "ld.param.u64 %rd115, [%rd35];\n" \
    "and.b64 %rd116, %rd109, 4294967295;\n" \
    "shl.b64 %rd117, %rd110, 32;\n" \
    "or.b64 %rd41, %rd116, %rd117;\n" \
    "add.s64 %rd42, %rd115, %rd37;\n" \
    "shl.b32 %r25, %r71, 3;\n" \
    "max.u32 %r60, %r20, %r25;\n" \
    "sub.s32 %r26, %r60, %r25;\n" \
    "setp.gt.u32 %p44, %r26, 7;\n" \
    "and.b64 %rd118, %rd42, 7;\n" \
    "setp.eq.s64 %p45, %rd118, 0;\n" \
    "and.pred %p46, %p44, %p45;\n" \
    "@%p46 bra LBB0_44;\n" \
    "setp.ge.u32 %p47, %r25, %r20;\n" \
    "@%p47 bra LBB0_36;\n" \
    "mov.u64 %rd136, 0;\n" \
    "mov.u64 %rd137, %rd136;\n" \
    "LBB0_35:\n" \
    "cvt.u32.u64 %r61, %rd136;\n" \
    "shr.u64 %rd120, %rd41, %r61;\n" \
    "add.s64 %rd121, %rd42, %rd137;\n" \
    "st.u8 [%rd121], %rd120;\n" \
    "add.s64 %rd45, %rd137, 1;\n" \
    "cvt.u32.u64 %r62, %rd137;\n" \
    "setp.lt.u32 %p48, %r62, 7;\n" \
    "cvt.u32.u64 %r63, %rd45;\n" \
    "setp.lt.u32 %p49, %r63, %r26;\n" \
    "and.pred %p50, %p48, %p49;\n" \
    "add.s64 %rd136, %rd136, 8;\n" \
    "mov.u64 %rd137, %rd45;\n" \
    "@%p50 bra LBB0_35;\n" \
    "bra.uni LBB0_36;\n" \
    "LBB0_37:\n" \
    "and.b32 %r64, %r6, 4;\n" \
    "setp.eq.s32 %p52, %r64, 0;\n" \
    "@%p52 bra LBB0_40;\n" \
    "bar.sync 0;\n" \
    "setp.ne.s32 %p53, %r2, 0;\n" \
    "@%p53 bra LBB0_40;\n" \
    "mad.lo.s32 %r66, %r68, %r4, %r1;\n" \
    "mul.wide.u32 %rd47, %r66, 4;\n" \
    "ld.param.u64 %rd123, [%rd1+16];\n" \
    "ld.param.u32 %r67, [%rd1+32];\n" \
    "add.s64 %rd122, %rd123, %rd47;\n" \
    "st.release.sys.global.b32 [%rd122], %r67;\n" \
    "LBB0_40:\n" \
    "ret;\n" \
    "LBB0_13:\n" \
    "mov.u32 %r70, %r71;\n" \
    "bra.uni LBB0_14;\n" \
    "LBB0_43:\n" \
    "st.u64 [%rd20], %rd133;\n" \
    "LBB0_22:\n" \
    "add.s32 %r70, %r70, %r5;\n" \
    "setp.lt.u32 %p34, %r70, %r14;\n" \
    "@%p34 bra LBB0_14;\n" \
    "bra.uni LBB0_23;\n" \
    "LBB0_14:\n" \
    "mul.wide.u32 %rd83, %r70, 8;\n" \
    "add.s64 %rd21, %rd18, %rd83;\n" \
    "shl.b32 %r16, %r70, 3;\n" \
    "max.u32 %r45, %r13, %r16;\n" \
    "sub.s32 %r17, %r45, %r16;\n" \
    "setp.gt.u32 %p20, %r17, 7;\n" \
    "and.b64 %rd84, %rd21, 7;\n" \
    "setp.eq.s64 %p21, %rd84, 0;\n" \
    "and.pred %p22, %p20, %p21;\n" \
    "@%p22 bra LBB0_42;\n" \
    "bra.uni LBB0_15;\n" \
    "LBB0_42:\n" \
    "ld.u64 %rd133, [%rd21];\n" \
    "bra.uni LBB0_18;\n" \
    "LBB0_15:\n" \
    "setp.ge.u32 %p23, %r16, %r13;\n" \
    "mov.u64 %rd133, 0;\n" \
    "@%p23 bra LBB0_18;\n" \
    "mov.u64 %rd130, 0;\n" \
    "mov.u64 %rd131, %rd130;\n" \
    "mov.u64 %rd133, %rd130;\n" \
    "LBB0_17:\n" \
    "add.s64 %rd87, %rd21, %rd131;\n" \
    "ld.u8 %rd88, [%rd87];\n" \
    "cvt.u32.u64 %r46, %rd130;\n" \
    "shl.b64 %rd89, %rd88, %r46;\n" \
    "or.b64 %rd133, %rd89, %rd133;\n" \
    "add.s64 %rd27, %rd131, 1;\n" \
    "cvt.u32.u64 %r47, %rd131;\n" \
    "setp.lt.u32 %p24, %r47, 7;\n" \
    "cvt.u32.u64 %r48, %rd27;\n" \
    "setp.lt.u32 %p25, %r48, %r17;\n" \
    "and.pred %p26, %p24, %p25;\n" \
    "add.s64 %rd130, %rd130, 8;\n" \
    "mov.u64 %rd131, %rd27;\n" \
    "@%p26 bra LBB0_17;\n" \
    "LBB0_18:\n" \
    "add.s64 %rd20, %rd19, %rd83;\n" \
    "and.b64 %rd90, %rd20, 7;\n" \
    "setp.eq.s64 %p28, %rd90, 0;\n" \
    "and.pred %p29, %p20, %p28;\n" \
    "@%p29 bra LBB0_43;\n" \
    "setp.ge.u32 %p30, %r16, %r13;\n" \
    "@%p30 bra LBB0_22;\n" \
    "mov.u64 %rd134, 0;\n" \
    "mov.u64 %rd135, %rd134;\n" \
    "LBB0_21:\n" \
    "cvt.u32.u64 %r49, %rd134;\n" \
    "shr.u64 %rd92, %rd133, %r49;\n" \
    "add.s64 %rd93, %rd20, %rd135;\n" \
    "st.u8 [%rd93], %rd92;\n" \
    "add.s64 %rd32, %rd135, 1;\n" \
    "cvt.u32.u64 %r50, %rd135;\n" \
    "setp.lt.u32 %p31, %r50, 7;\n" \
    "cvt.u32.u64 %r51, %rd32;\n" \
    "setp.lt.u32 %p32, %r51, %r17;\n" \
    "and.pred %p33, %p31, %p32;\n" \
    "add.s64 %rd134, %rd134, 8;\n" \
    "mov.u64 %rd135, %rd32;\n" \
    "@%p33 bra LBB0_21;\n" \
    "bra.uni LBB0_22;\n" \
    "}\n"
/* clang-format on */
