import { expect, test } from "vitest";
import { stress } from "../stress/stress.ts";

test("ten seconds of everything at once on a few rows break nothing", async () => {
  const seed = Math.floor(Math.random() * 1_000_000);
  const { checks } = await stress({ seconds: 10, connections: 12, seed, variety: false });
  const wrong = checks.filter((check) => check.wrong.length > 0);
  expect(wrong, `seed ${seed}`).toEqual([]);
}, 120_000);
