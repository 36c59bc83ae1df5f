/* The kernel of eager starts for CUDA, in PTX. tools/ptx.sh makes this file of eager.cu: do not edit it. */
/* clang-format off */
#define DMA_EAGER_PTX \
    ".version 6.0\n" \
    ".target sm_70\n" \
    ".address_size 64\n" \
    ".visible .entry dma_eager(\n" \
    ".param .align 8 .b8 dma_eager_param_0[696]\n" \
    ")\n" \
    "{\n" \
    ".reg .pred %p<62>;\n" \
    ".reg .b32 %r<96>;\n" \
    ".reg .b64 %rd<142>;\n" \
    "mov.b64 %rd49, dma_eager_param_0;\n" \
    "mov.u64 %rd1, %rd49;\n" \
    "mov.u32 %r1, %ctaid.x;\n" \
    "mov.u32 %r38, %ntid.x;\n" \
    "mov.u32 %r2, %tid.x;\n" \
    "mad.lo.s32 %r89, %r1, %r38, %r2;\n" \
    "mov.u32 %r4, %nctaid.x;\n" \
    "mul.lo.s32 %r5, %r4, %r38;\n" \
    "mov.u32 %r39, %ctaid.y;\n" \
    "cvt.u64.u32 %rd2, %r39;\n" \
    "ld.param.u32 %r40, [dma_eager_param_0+44];\n" \
    "and.b32 %r41, %r40, 1;\n" \
    "setp.eq.b32 %p2, %r41, 1;\n" \
    "mov.pred %p3, 0;\n" \
    "xor.pred %p4, %p2, %p3;\n" \
    "not.pred %p5, %p4;\n" \
    "@%p5 bra LBB0_24;\n" \
    "mul.wide.u32 %rd50, %r39, 40;\n" \
    "add.s64 %rd51, %rd1, %rd50;\n" \
    "cvt.u32.u64 %r42, %rd2;\n" \
    "or.b32 %r43, %r42, %r89;\n" \
    "setp.ne.s32 %p6, %r43, 0;\n" \
    "@%p6 bra LBB0_3;\n" \
    "ld.param.u64 %rd52, [%rd1];\n" \
    "ld.param.u32 %r44, [%rd1+40];\n" \
    "st.relaxed.sys.global.b32 [%rd52], %r44;\n" \
    "LBB0_3:\n" \
    "add.s64 %rd3, %rd51, 56;\n" \
    "mul.lo.s64 %rd53, %rd2, 40;\n" \
    "add.s64 %rd54, %rd1, %rd53;\n" \
    "ld.param.u64 %rd4, [%rd54+72];\n" \
    "setp.eq.s64 %p7, %rd4, 0;\n" \
    "@%p7 bra LBB0_12;\n" \
    "ld.param.u32 %r86, [%rd54+88];\n" \
    "cvt.u64.u32 %rd61, %r86;\n" \
    "setp.eq.s32 %p8, %r86, 0;\n" \
    "add.s64 %rd62, %rd61, 7;\n" \
    "shr.u64 %rd63, %rd62, 3;\n" \
    "cvt.u32.u64 %r47, %rd63;\n" \
    "selp.b32 %r7, 1, %r47, %p8;\n" \
    "setp.le.u32 %p9, %r7, %r89;\n" \
    "@%p9 bra LBB0_24;\n" \
    "mov.u64 %rd129, 0;\n" \
    "ld.param.u64 %rd55, [%rd1+32];\n" \
    "ld.param.u32 %r45, [%rd1+40];\n" \
    "and.b32 %r46, %r45, 1;\n" \
    "cvt.u64.u32 %rd56, %r46;\n" \
    "mul.lo.s64 %rd57, %rd55, %rd56;\n" \
    "add.s64 %rd5, %rd57, %rd4;\n" \
    "cvt.u64.u32 %rd58, %r45;\n" \
    "shl.b64 %rd6, %rd58, 32;\n" \
    "add.s64 %rd7, %rd54, 88;\n" \
    "mov.u32 %r87, %r89;\n" \
    "LBB0_6:\n" \
    "mul.wide.u32 %rd64, %r87, 8;\n" \
    "ld.param.u64 %rd65, [%rd3];\n" \
    "add.s64 %rd9, %rd64, %rd65;\n" \
    "shl.b32 %r10, %r87, 3;\n" \
    "max.u32 %r48, %r86, %r10;\n" \
    "sub.s32 %r11, %r48, %r10;\n" \
    "setp.gt.u32 %p10, %r11, 7;\n" \
    "and.b64 %rd66, %rd9, 7;\n" \
    "setp.eq.s64 %p11, %rd66, 0;\n" \
    "and.pred %p12, %p10, %p11;\n" \
    "@%p12 bra LBB0_47;\n" \
    "bra.uni LBB0_7;\n" \
    "LBB0_47:\n" \
    "ld.u64 %rd133, [%rd9];\n" \
    "bra.uni LBB0_10;\n" \
    "LBB0_7:\n" \
    "setp.ge.u32 %p13, %r10, %r86;\n" \
    "mov.u64 %rd133, %rd129;\n" \
    "@%p13 bra LBB0_10;\n" \
    "mov.u64 %rd130, 0;\n" \
    "mov.u64 %rd131, %rd130;\n" \
    "mov.u64 %rd133, %rd130;\n" \
    "LBB0_9:\n" \
    "add.s64 %rd69, %rd9, %rd131;\n" \
    "ld.u8 %rd70, [%rd69];\n" \
    "cvt.u32.u64 %r49, %rd130;\n" \
    "shl.b64 %rd71, %rd70, %r49;\n" \
    "or.b64 %rd133, %rd71, %rd133;\n" \
    "add.s64 %rd15, %rd131, 1;\n" \
    "cvt.u32.u64 %r50, %rd131;\n" \
    "setp.lt.u32 %p14, %r50, 7;\n" \
    "cvt.u32.u64 %r51, %rd15;\n" \
    "setp.lt.u32 %p15, %r51, %r11;\n" \
    "and.pred %p16, %p14, %p15;\n" \
    "add.s64 %rd130, %rd130, 8;\n" \
    "mov.u64 %rd131, %rd15;\n" \
    "@%p16 bra LBB0_9;\n" \
    "LBB0_10:\n" \
    "cvt.u64.u32 %rd8, %r87;\n" \
    "cvt.u32.u64 %r52, %rd8;\n" \
    "and.b64 %rd75, %rd133, 4294967295;\n" \
    "or.b64 %rd73, %rd75, %rd6;\n" \
    "shr.u64 %rd76, %rd133, 32;\n" \
    "or.b64 %rd74, %rd76, %rd6;\n" \
    "shl.b64 %rd77, %rd8, 4;\n" \
    "add.s64 %rd72, %rd5, %rd77;\n" \
    "st.relaxed.sys.global.v2.b64 [%rd72], {%rd73, %rd74};\n" \
    "add.s32 %r87, %r52, %r5;\n" \
    "setp.ge.u32 %p17, %r87, %r7;\n" \
    "@%p17 bra LBB0_24;\n" \
    "ld.param.u32 %r86, [%rd7];\n" \
    "bra.uni LBB0_6;\n" \
    "LBB0_12:\n" \
    "ld.param.v2.u32 {%r53, %r54}, [%rd54+88];\n" \
    "min.u32 %r14, %r53, %r54;\n" \
    "cvt.u64.u32 %rd80, %r14;\n" \
    "setp.eq.s32 %p18, %r14, 0;\n" \
    "add.s64 %rd81, %rd80, 7;\n" \
    "shr.u64 %rd82, %rd81, 3;\n" \
    "cvt.u32.u64 %r55, %rd82;\n" \
    "selp.b32 %r15, 1, %r55, %p18;\n" \
    "setp.le.u32 %p19, %r15, %r89;\n" \
    "@%p19 bra LBB0_24;\n" \
    "add.s64 %rd18, %rd54, 64;\n" \
    "mov.u32 %r88, %r89;\n" \
    "bra.uni LBB0_14;\n" \
    "LBB0_49:\n" \
    "st.u64 [%rd31], %rd137;\n" \
    "LBB0_23:\n" \
    "add.s32 %r88, %r88, %r5;\n" \
    "setp.lt.u32 %p35, %r88, %r15;\n" \
    "@%p35 bra LBB0_14;\n" \
    "bra.uni LBB0_24;\n" \
    "LBB0_14:\n" \
    "ld.param.u64 %rd20, [%rd3];\n" \
    "ld.param.u64 %rd21, [%rd18];\n" \
    "setp.eq.s64 %p20, %rd20, %rd21;\n" \
    "@%p20 bra LBB0_24;\n" \
    "mul.wide.u32 %rd19, %r88, 8;\n" \
    "add.s64 %rd22, %rd19, %rd20;\n" \
    "shl.b32 %r17, %r88, 3;\n" \
    "max.u32 %r56, %r14, %r17;\n" \
    "sub.s32 %r18, %r56, %r17;\n" \
    "setp.gt.u32 %p21, %r18, 7;\n" \
    "and.b64 %rd85, %rd22, 7;\n" \
    "setp.eq.s64 %p22, %rd85, 0;\n" \
    "and.pred %p23, %p21, %p22;\n" \
    "@%p23 bra LBB0_48;\n" \
    "bra.uni LBB0_16;\n" \
    "LBB0_48:\n" \
    "ld.u64 %rd137, [%rd22];\n" \
    "bra.uni LBB0_19;\n" \
    "LBB0_16:\n" \
    "setp.ge.u32 %p24, %r17, %r14;\n" \
    "mov.u64 %rd137, 0;\n" \
    "@%p24 bra LBB0_19;\n" \
    "mov.u64 %rd134, 0;\n" \
    "mov.u64 %rd135, %rd134;\n" \
    "mov.u64 %rd137, %rd134;\n" \
    "LBB0_18:\n" \
    "add.s64 %rd88, %rd22, %rd135;\n" \
    "ld.u8 %rd89, [%rd88];\n" \
    "cvt.u32.u64 %r57, %rd134;\n" \
    "shl.b64 %rd90, %rd89, %r57;\n" \
    "or.b64 %rd137, %rd90, %rd137;\n" \
    "add.s64 %rd28, %rd135, 1;\n" \
    "cvt.u32.u64 %r58, %rd135;\n" \
    "setp.lt.u32 %p25, %r58, 7;\n" \
    "cvt.u32.u64 %r59, %rd28;\n" \
    "setp.lt.u32 %p26, %r59, %r18;\n" \
    "and.pred %p27, %p25, %p26;\n" \
    "add.s64 %rd134, %rd134, 8;\n" \
    "mov.u64 %rd135, %rd28;\n" \
    "@%p27 bra LBB0_18;\n" \
    "LBB0_19:\n" \
    "add.s64 %rd31, %rd21, %rd19;\n" \
    "and.b64 %rd91, %rd31, 7;\n" \
    "setp.eq.s64 %p29, %rd91, 0;\n" \
    "and.pred %p30, %p21, %p29;\n" \
    "@%p30 bra LBB0_49;\n" \
    "setp.ge.u32 %p31, %r17, %r14;\n" \
    "@%p31 bra LBB0_23;\n" \
    "mov.u64 %rd138, 0;\n" \
    "mov.u64 %rd139, %rd138;\n" \
    "LBB0_22:\n" \
    "cvt.u32.u64 %r60, %rd138;\n" \
    "shr.u64 %rd93, %rd137, %r60;\n" \
    "add.s64 %rd94, %rd31, %rd139;\n" \
    "st.u8 [%rd94], %rd93;\n" \
    "add.s64 %rd34, %rd139, 1;\n" \
    "cvt.u32.u64 %r61, %rd139;\n" \
    "setp.lt.u32 %p32, %r61, 7;\n" \
    "cvt.u32.u64 %r62, %rd34;\n" \
    "setp.lt.u32 %p33, %r62, %r18;\n" \
    "and.pred %p34, %p32, %p33;\n" \
    "add.s64 %rd138, %rd138, 8;\n" \
    "mov.u64 %rd139, %rd34;\n" \
    "@%p34 bra LBB0_22;\n" \
    "bra.uni LBB0_23;\n" \
    "LBB0_24:\n" \
    "ld.param.u32 %r94, [%rd1+44];\n" \
    "and.b32 %r64, %r94, 2;\n" \
    "setp.eq.s32 %p36, %r64, 0;\n" \
    "mov.u32 %r95, 1;\n" \
    "@%p36 bra LBB0_41;\n" \
    "mul.lo.s64 %rd95, %rd2, 40;\n" \
    "add.s64 %rd96, %rd1, %rd95;\n" \
    "ld.param.u64 %rd97, [%rd96+72];\n" \
    "setp.eq.s64 %p37, %rd97, 0;\n" \
    "@%p37 bra LBB0_41;\n" \
    "ld.param.u32 %rd105, [%rd96+92];\n" \
    "setp.eq.s64 %p38, %rd105, 0;\n" \
    "add.s64 %rd106, %rd105, 7;\n" \
    "shr.u64 %rd107, %rd106, 3;\n" \
    "cvt.u32.u64 %r67, %rd107;\n" \
    "selp.b32 %r21, 1, %r67, %p38;\n" \
    "setp.le.u32 %p39, %r21, %r89;\n" \
    "@%p39 bra LBB0_41;\n" \
    "ld.param.u64 %rd100, [%rd96+80];\n" \
    "ld.param.u32 %rd101, [%rd1+40];\n" \
    "and.b64 %rd102, %rd101, 1;\n" \
    "ld.param.u64 %rd103, [%rd1+32];\n" \
    "mul.lo.s64 %rd104, %rd103, %rd102;\n" \
    "add.s64 %rd36, %rd104, %rd100;\n" \
    "add.s64 %rd37, %rd96, 92;\n" \
    "add.s64 %rd38, %rd96, 64;\n" \
    "mov.u32 %r91, 0;\n" \
    "mov.pred %p48, -1;\n" \
    "bra.uni LBB0_28;\n" \
    "LBB0_50:\n" \
    "st.u64 [%rd44], %rd43;\n" \
    "LBB0_39:\n" \
    "add.s32 %r89, %r89, %r5;\n" \
    "setp.lt.u32 %p57, %r89, %r21;\n" \
    "mov.u32 %r95, 1;\n" \
    "@%p57 bra LBB0_28;\n" \
    "bra.uni LBB0_40;\n" \
    "LBB0_28:\n" \
    "mul.wide.u32 %rd39, %r89, 8;\n" \
    "mul.wide.u32 %rd110, %r89, 16;\n" \
    "add.s64 %rd40, %rd36, %rd110;\n" \
    "bra.uni LBB0_29;\n" \
    "LBB0_31:\n" \
    "setp.lt.u32 %p46, %r91, %r26;\n" \
    "mov.pred %p61, %p48;\n" \
    "@%p46 bra LBB0_29;\n" \
    "bra.uni LBB0_34;\n" \
    "LBB0_29:\n" \
    "ld.relaxed.sys.global.v2.b64 {%rd111, %rd112}, [%rd40];\n" \
    "shr.u64 %rd114, %rd111, 32;\n" \
    "cvt.u32.u64 %r69, %rd114;\n" \
    "ld.param.u32 %r70, [%rd1+40];\n" \
    "setp.eq.s32 %p41, %r70, %r69;\n" \
    "shr.u64 %rd115, %rd112, 32;\n" \
    "cvt.u32.u64 %r71, %rd115;\n" \
    "setp.eq.s32 %p42, %r70, %r71;\n" \
    "and.pred %p43, %p41, %p42;\n" \
    "mov.pred %p61, %p3;\n" \
    "@%p43 bra LBB0_34;\n" \
    "add.s32 %r91, %r91, 1;\n" \
    "ld.param.u32 %r26, [%rd1+48];\n" \
    "setp.eq.s32 %p44, %r26, 0;\n" \
    "@%p44 bra LBB0_32;\n" \
    "bra.uni LBB0_31;\n" \
    "LBB0_32:\n" \
    "and.b32 %r72, %r91, 8191;\n" \
    "setp.ne.s32 %p47, %r72, 0;\n" \
    "@%p47 bra LBB0_29;\n" \
    "ld.param.u64 %rd116, [%rd1+8];\n" \
    "ld.relaxed.sys.global.b32 %r73, [%rd116];\n" \
    "setp.eq.s32 %p49, %r73, 0;\n" \
    "mov.pred %p61, %p48;\n" \
    "@%p49 bra LBB0_29;\n" \
    "LBB0_34:\n" \
    "mov.u32 %r95, 0;\n" \
    "@%p61 bra LBB0_40;\n" \
    "ld.param.u64 %rd117, [%rd38];\n" \
    "ld.param.u32 %r28, [%rd37];\n" \
    "and.b64 %rd118, %rd111, 4294967295;\n" \
    "shl.b64 %rd119, %rd112, 32;\n" \
    "or.b64 %rd43, %rd118, %rd119;\n" \
    "add.s64 %rd44, %rd117, %rd39;\n" \
    "shl.b32 %r29, %r89, 3;\n" \
    "max.u32 %r75, %r28, %r29;\n" \
    "sub.s32 %r30, %r75, %r29;\n" \
    "setp.gt.u32 %p50, %r30, 7;\n" \
    "and.b64 %rd120, %rd44, 7;\n" \
    "setp.eq.s64 %p51, %rd120, 0;\n" \
    "and.pred %p52, %p50, %p51;\n" \
    "@%p52 bra LBB0_50;\n" \
    "setp.ge.u32 %p53, %r29, %r28;\n" \
    "@%p53 bra LBB0_39;\n" \
    "mov.u64 %rd140, 0;\n" \
    "mov.u64 %rd141, %rd140;\n" \
    "LBB0_38:\n" \
    "cvt.u32.u64 %r76, %rd140;\n" \
    "shr.u64 %rd122, %rd43, %r76;\n" \
    "add.s64 %rd123, %rd44, %rd141;\n" \
    "st.u8 [%rd123], %rd122;\n" \
    "add.s64 %rd47, %rd141, 1;\n" \
    "cvt.u32.u64 %r77, %rd141;\n" \
    "setp.lt.u32 %p54, %r77, 7;\n" \
    "cvt.u32.u64 %r78, %rd47;\n" \
    "setp.lt.u32 %p55, %r78, %r30;\n" \
    "and.pred %p56, %p54, %p55;\n" \
    "add.s64 %rd140, %rd140, 8;\n" \
    "mov.u64 %rd141, %rd47;\n" \
    "@%p56 bra LBB0_38;\n" \
    "bra.uni LBB0_39;\n" \
    "LBB0_40:\n" \
    "ld.param.u32 %r94, [%rd1+44];\n" \
    "LBB0_41:\n" \
    "and.b32 %r80, %r94, 4;\n" \
    "setp.eq.s32 %p58, %r80, 0;\n" \
    "@%p58 bra LBB0_46;\n" \
    "{\n" \
    ".reg .pred p, q;\n" \
    "setp.ne.s32 p, %r95, 0;\n" \
    "bar.red.and.pred q, 0, p;\n" \
    "selp.s32 %r95, 1, 0, q;\n" \
    "}\n" \
    "setp.ne.s32 %p59, %r2, 0;\n" \
    "@%p59 bra LBB0_46;\n" \
    "cvt.u32.u64 %r83, %rd2;\n" \
    "mad.lo.s32 %r37, %r83, %r4, %r1;\n" \
    "setp.ne.s32 %p60, %r95, 0;\n" \
    "@%p60 bra LBB0_45;\n" \
    "ld.param.u64 %rd124, [%rd1+16];\n" \
    "ld.param.u32 %r84, [%rd1+40];\n" \
    "st.relaxed.sys.global.b32 [%rd124], %r84;\n" \
    "LBB0_45:\n" \
    "ld.param.u64 %rd126, [%rd1+24];\n" \
    "mul.wide.u32 %rd127, %r37, 4;\n" \
    "add.s64 %rd125, %rd126, %rd127;\n" \
    "ld.param.u32 %r85, [%rd1+40];\n" \
    "st.release.sys.global.b32 [%rd125], %r85;\n" \
    "LBB0_46:\n" \
    "ret;\n" \
    "}\n"
/* clang-format on */
