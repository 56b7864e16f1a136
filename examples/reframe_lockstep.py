"""A test for ReFrame: does training still scale on this system? See docs/cluster.md.

    reframe -c examples/reframe_lockstep.py -r [-S program=PATH]

Under ReFrame's launcher srun or mpirun it starts the ranks, under `local` lockstep does. Give `reference` your own
systems, as "system:partition", with numbers of a good day.
"""
import json

import reframe as rfm
import reframe.utility.sanity as sn
from reframe.core.builtins import performance_function, run_after, sanity_function, variable


@rfm.simple_test
class LockstepScaling(rfm.RunOnlyRegressionTest):
    """Two ranks of ResNet-18: every row measured, with an efficiency that is not below the reference."""

    descr = "ResNet-18 scales from one rank to several"
    program = variable(str, value="lockstep")
    ranks = variable(int, value=2)
    valid_systems = ["*"]
    valid_prog_environs = ["*"]
    time_limit = "10m"
    reference = {"*": {"efficiency": (0.9, -0.3, None, "1"), "images_per_s": (0, None, None, "1/s")}}

    @run_after("setup")
    def set_command(self):
        self.executable = self.program
        self.executable_opts = ["bench", "--device", "cpu", "--model", "resnet18", "--image-size", "64", "--batch", "8",
                                "--ranks", f"1,{self.ranks}", "--max-time", "10", "--json", "result.json"]
        if self.job.launcher.registered_name != "local":
            self.num_tasks = self.ranks

    def last_row(self):
        """The row of all ranks that train together."""
        with open(f"{self.stagedir}/result.json") as file:
            record = json.load(file)["lockstep"]
        rows = [row for row in record["runs"] if row["ranks"] == self.ranks and row["strategy"] != "independent"]
        return rows[-1] if rows and not record["incomplete"] else None

    @sanity_function
    def all_rows_are_measured(self):
        row = self.last_row()
        return sn.assert_true(row, "a row is missing: result.json says why")

    @performance_function("1")
    def efficiency(self):
        return self.last_row()["efficiency"]

    @performance_function("1/s")
    def images_per_s(self):
        return self.last_row()["images_per_s"]
