"""Spack recipe. Put this file into packages/coll-dma/ of a repository of your own, then, in the folder with the release's
tarball: spack install coll-dma."""
import os

from spack.package import *


class CollDma(AutotoolsPackage):
    """A collective component for Open MPI: all-gather and all-to-all by DMA engines of GPUs, shared memory and UCX."""

    manual_download = True
    license("BSD-3-Clause")

    version("0.1.0")

    variant("ucx", default=True, description="Serve communicators over several nodes")
    variant("sdt", default=False, description="Static probes, with the sys/sdt.h of this machine")

    depends_on("c", type="build")
    depends_on("pkgconfig", type="build")
    depends_on("openmpi@4.1:6.0", type=("build", "link", "run"))
    depends_on("ucx@1.13:", when="+ucx", type=("build", "run"))
    depends_on("check@0.10:", type="test")

    def url_for_version(self, version):
        return f"file://{os.getcwd()}/coll-dma-{version}.tar.gz"

    def configure_args(self):
        ucx = f"--with-ucx={self.spec['ucx'].prefix}" if self.spec.satisfies("+ucx") else "--without-ucx"
        return [f"--with-ompi={self.spec['openmpi'].prefix}", ucx, *self.with_or_without("sdt")]

    def setup_run_environment(self, env):
        # Open MPI's own folder comes after ours.
        env.append_path("OMPI_MCA_mca_base_component_path", self.prefix.lib.openmpi)
        env.append_path("OMPI_MCA_mca_base_component_path", "SYS_DEFAULT")
