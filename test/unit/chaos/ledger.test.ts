import { describe, expect, test } from "vitest";
import { type Line, wrongInLedger } from "../../chaos/outside-checks.ts";

const line = (op: string, outcome: string, key = "k1", name = "data"): Line => ({ op, key, name, outcome });
const created = line("createVolume", "created");
const deleted = line("deleteVolume", "deleted");

describe("the cloud's ledger is right where each thing was made once and removed once", () => {
  test.each<readonly [string, readonly Line[], readonly string[]]>([
    ["a volume that is there", [created], ["k1"]],
    ["a volume that was asked for again", [created, line("createVolume", "existing")], ["k1"]],
    ["a volume that is gone", [created, deleted], []],
    ["a deletion that was repeated", [created, deleted, line("deleteVolume", "missing")], []],
    ["a caller who was killed after the creation", [line("createVolume", "killed"), deleted], []],
    ["a caller who was killed after the deletion", [created, line("deleteVolume", "killed")], []],
    ["a command, of which nothing stays", [line("runCommand", "created")], []],
  ])("%s", (_, lines, there) => {
    expect(wrongInLedger(lines, new Set(there), ["data"])).toEqual([]);
  });
});

describe("it tells of", () => {
  test.each<readonly [string, readonly Line[], readonly string[], string]>([
    ["a volume that was made twice", [created, created], ["k1"], "data (key k1) was made 2 times"],
    [
      "a command that was started twice",
      [line("runCommand", "created"), line("runCommand", "created")],
      [],
      "data (key k1) was made 2 times",
    ],
    ["one that was removed twice", [created, deleted, deleted], [], "data (key k1) was removed 2 times"],
    ["one that was removed and never made", [deleted], [], "data (key k1) was never made"],
    ["one that is gone and was never removed", [created], [], "data (key k1) is gone, and was never removed"],
    [
      "a second one under another key",
      [created, line("createVolume", "created", "k2")],
      ["k1", "k2"],
      "data was asked for 1 times, and has 2 keys",
    ],
  ])("%s", (_, lines, there, wrong) => {
    expect(wrongInLedger(lines, new Set(there), ["data"])).toEqual([wrong]);
  });
});
