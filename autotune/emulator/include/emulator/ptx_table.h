// The instructions of inline PTX that the emulator knows, with all that follows their names: of
// others the emulator would not know what a part of the name changes. Loads, stores and atomic
// operations that are not among them are those of ptx_atomics.h.
#pragma once

#include "ptx_arithmetic.h"
#include "ptx_atomics.h"
#include "ptx_fp8.h"
#include "ptx_matrix.h"
#include "ptx_memory.h"
#include "ptx_sync.h"
#include "ptx_tensor.h"

namespace emulator {

struct PtxKnown {
  const char* name;  // `*` stands for digits
  PtxPerform perform;
  // How many words it has as operands, whatever braces are around them; 0 of those that count them.
  int least = 0, most = least;
};

EMULATOR_OWN bool ptx_matches(const char* pattern, const char* name) {
  for (; *pattern; ++pattern) {
    if (*pattern == '*') {
      if (*name < '0' || *name > '9') return false;
      while (*name >= '0' && *name <= '9') ++name;
    } else if (*pattern != *name++) {
      return false;
    }
  }
  return !*name;
}

EMULATOR_OWN PtxPerform ptx_known(const char* name, int words) {
  static const PtxKnown known[] = {
      // Order among threads and copies. What runs here is visible to all at once.
      {"bar.sync", ptx_bar_sync, 1, 2},
      {"bar.arrive", ptx_bar_arrive, 2},
      {"barrier.cluster.arrive.aligned", ptx_cluster_arrive},
      {"barrier.cluster.arrive.relaxed.aligned", ptx_cluster_arrive},
      {"barrier.cluster.wait.aligned", ptx_cluster_wait},
      {"barrier.cluster.wait.acquire.aligned", ptx_cluster_wait},
      {"nanosleep.u32", ptx_nothing, 1},
      {"elect.sync", ptx_elect, 3},
      {"setmaxnreg.inc.sync.aligned.u32", ptx_setmaxnreg, 1},
      {"setmaxnreg.dec.sync.aligned.u32", ptx_setmaxnreg, 1},
      {"fence.mbarrier_init.release.cluster", ptx_nothing},
      {"fence.acq_rel.cta", ptx_fence},
      {"fence.acq_rel.cluster", ptx_fence},
      {"fence.acq_rel.gpu", ptx_fence},
      {"fence.acq_rel.sys", ptx_fence},
      {"fence.sc.cta", ptx_fence},
      {"fence.sc.gpu", ptx_fence},
      {"fence.sc.sys", ptx_fence},
      {"membar.cta", ptx_fence},
      {"membar.gl", ptx_fence},
      {"membar.sys", ptx_fence},
      {"fence.proxy.async", ptx_proxy_fence},
      {"fence.proxy.async.shared::cta", ptx_proxy_fence},
      {"fence.proxy.async.shared::cluster", ptx_proxy_fence},
      {"fence.proxy.async.global", ptx_nothing},
      {"fence.proxy.tensormap::generic.release.gpu", ptx_nothing},
      {"fence.proxy.tensormap::generic.acquire.gpu", ptx_nothing},
      {"griddepcontrol.launch_dependents", ptx_nothing},
      {"griddepcontrol.wait", ptx_nothing},
      {"mbarrier.init.shared::cta.b64", ptx_mbarrier_init, 2},
      {"mbarrier.inval.shared::cta.b64", ptx_mbarrier_invalidate, 1},
      {"mbarrier.arrive.shared::cta.b64", ptx_mbarrier_arrive, 2},
      {"mbarrier.arrive.shared::cluster.b64", ptx_mbarrier_arrive, 2},
      {"mbarrier.arrive.expect_tx.shared::cta.b64", ptx_mbarrier_expect, 3},
      {"mbarrier.try_wait.parity.shared::cta.b64", ptx_mbarrier_wait, 3, 4},
      {"cp.async.ca.shared.global", ptx_copy, 3, 4},
      {"cp.async.cg.shared.global", ptx_copy, 3, 4},
      {"cp.async.commit_group", ptx_copy_commit},
      {"cp.async.wait_group", ptx_copy_wait, 1},
      {"cp.async.wait_all", ptx_copy_wait_all},
      {"cp.async.mbarrier.arrive.noinc.shared::cta.b64", ptx_copy_arrive, 1},
      {"cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes", ptx_copy_bulk, 4},
      {"cp.async.bulk.commit_group", ptx_store_commit},
      {"cp.async.bulk.wait_group.read", ptx_store_wait, 1},
      {"prefetch.tensormap", ptx_nothing},
      {"cp.async.bulk.tensor.*d.shared::cluster.global.mbarrier::complete_tx::bytes", ptx_tensor_load},
      {"cp.async.bulk.tensor.*d.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster",
       ptx_tensor_load},
      {"cp.async.bulk.tensor.4d.shared::cluster.global.im2col.mbarrier::complete_tx::bytes", ptx_tensor_load},
      {"cp.async.bulk.tensor.*d.global.shared::cta.bulk_group", ptx_tensor_store},
      // Memory.
      {"mapa.shared::cluster.u32", ptx_map, 3},
      {"ld.shared.b32", ptx_load},
      {"ld.shared::cluster.f32", ptx_load},
      {"ld.shared::cluster.v4.f32", ptx_load},
      {"ld.shared::cluster.v4.s32", ptx_load},
      {"st.global.v2.f32", ptx_store},
      {"st.global.v2.b32", ptx_store},
      {"st.global.v4.b32", ptx_store},
      {"st.shared::cluster.v4.f32", ptx_store},
      {"st.async.weak.shared::cluster.mbarrier::complete_tx::bytes.v4.f32", ptx_store_async},
      // Arithmetic.
      {"mov.b32", ptx_move, 2},
      {"mov.u32", ptx_move, 2},
      {"setp.ne.b32", ptx_set_not_equal, 3},
      {"setp.ne.u32", ptx_set_not_equal, 3},
      {"selp.u32", ptx_select, 4},
      {"max.NaN.f32", ptx_max_nan, 3},
      {"min.NaN.f32", ptx_min_nan, 3},
      {"min.u16x2", ptx_min_halves, 3},
      {"lop3.b32", ptx_logic, 5},
      {"prmt.b32", ptx_permute, 4},
      {"bfe.u32", ptx_extract, 4},
      {"bfe.s32", ptx_extract_signed, 4},
      {"bfi.b32", ptx_insert, 5},
      {"shf.l.wrap.b32", ptx_funnel_left, 4},
      {"shf.r.wrap.b32", ptx_funnel_right, 4},
      {"ex2.approx.f32", ptx_exp2_whole, 2},
      {"rcp.approx.f32", ptx_reciprocal_whole, 2},
      {"rsqrt.approx.f32", ptx_rsqrt, 2},
      {"sqrt.approx.f32", ptx_sqrt, 2},
      {"lg2.approx.f32", ptx_log2, 2},
      {"tanh.approx.f32", ptx_tanh, 2},
      {"ex2.approx.ftz.f32", ptx_exp2, 2},
      {"rcp.approx.ftz.f32", ptx_reciprocal, 2},
      {"cvt.f32.f16", ptx_widen_half, 2},
      {"cvt.rn.f16.f32", ptx_to_half, 2},
      {"cvt.rn.bf16.f32", ptx_to_bfloat, 2},
      {"cvt.rn.f16x2.f32", ptx_to_halves, 3},
      {"cvt.rn.bf16x2.f32", ptx_to_bfloats, 3},
      {"cvt.rna.tf32.f32", ptx_to_tf32, 2},
      {"cvt.rn.satfinite.e4m3x2.f32", ptx_floats_to_fp8, 3},
      {"cvt.rn.satfinite.e5m2x2.f32", ptx_floats_to_fp8, 3},
      {"cvt.rn.satfinite.relu.e4m3x2.f32", ptx_floats_to_fp8, 3},
      {"cvt.rn.satfinite.relu.e5m2x2.f32", ptx_floats_to_fp8, 3},
      {"cvt.rn.satfinite.e4m3x2.f16x2", ptx_halves_to_fp8, 2},
      {"cvt.rn.satfinite.e5m2x2.f16x2", ptx_halves_to_fp8, 2},
      {"cvt.rn.satfinite.relu.e4m3x2.f16x2", ptx_halves_to_fp8, 2},
      {"cvt.rn.satfinite.relu.e5m2x2.f16x2", ptx_halves_to_fp8, 2},
      {"cvt.rn.f16x2.e4m3x2", ptx_fp8_to_halves, 2},
      {"cvt.rn.f16x2.e5m2x2", ptx_fp8_to_halves, 2},
      {"cvt.rn.relu.f16x2.e4m3x2", ptx_fp8_to_halves, 2},
      {"cvt.rn.relu.f16x2.e5m2x2", ptx_fp8_to_halves, 2},
      // Matrices.
      {"ldmatrix.sync.aligned.m8n8.x*.shared.b16", ptx_load_matrices},
      {"ldmatrix.sync.aligned.m8n8.x*.trans.shared.b16", ptx_load_matrices},
      {"stmatrix.sync.aligned.m8n8.x*.shared.b16", ptx_store_matrices},
      {"stmatrix.sync.aligned.m8n8.x*.trans.shared.b16", ptx_store_matrices},
      {"movmatrix.sync.aligned.m8n8.trans.b16", ptx_move_matrix, 2},
      {"mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32", ptx_mma},
      {"mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32", ptx_mma},
      {"mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32", ptx_mma},
      {"mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32", ptx_mma},
      {"mma.sync.aligned.m16n8k32.row.col.s32.u8.s8.s32", ptx_mma},
      {"wgmma.fence.sync.aligned", ptx_wgmma_fence},
      {"wgmma.commit_group.sync.aligned", ptx_wgmma_commit},
      {"wgmma.wait_group.sync.aligned", ptx_wgmma_wait},
      {"wgmma.mma_async.sync.aligned.m64n*k16.f32.f16.f16", ptx_wgmma},
      {"wgmma.mma_async.sync.aligned.m64n*k16.f32.bf16.bf16", ptx_wgmma},
      {"wgmma.mma_async.sync.aligned.m64n*k8.f32.tf32.tf32", ptx_wgmma},
      {"wgmma.mma_async.sync.aligned.m64n*k32.s32.s8.s8", ptx_wgmma},
      {"wgmma.mma_async.sync.aligned.m64n*k32.s32.u8.s8", ptx_wgmma},
  };
  for (const PtxKnown& each : known)
    if (ptx_matches(each.name, name) && (!each.most || (words >= each.least && words <= each.most)))
      return each.perform;
  return ptx_access_known(name, words);
}

}  // namespace emulator
