"""What the count must be, and how its answers are judged. Needs no card: python3 -m unittest test_count"""

import contextlib
import io
import unittest

import count


class Count(unittest.TestCase):
    def test_the_checksum_after_n_steps_is_known(self):
        # The first is a published value: splitmix64's first output for the seed 0.
        self.assertEqual(count.mix(0, 0), 0xE220A8397B1DCDAF)
        self.assertEqual([count.expected(steps) for steps in (0, 1, 2)], [0, 0x910A2DEC89025CC1, 0xBCD9DBB49673066B])
        self.assertEqual(count.expected(1000), 0x1A625B02D2365C16)

    def test_an_answer_is_judged_by_its_step(self):
        with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
            self.assertEqual(count.show("count 1 0 0 0 1:910a2dec89025cc1:910a2dec89025cc1:GPU-0"), 0)
            self.assertEqual(count.show("count 2 0 0 0 2:910a2dec89025cc1:910a2dec89025cc1:GPU-0"), 1)
            self.assertEqual(count.show("error it is broken"), 1)


if __name__ == "__main__":
    unittest.main()
