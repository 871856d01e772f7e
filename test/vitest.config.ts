import { defineConfig } from "vitest/config";

const root = new URL("..", import.meta.url).pathname;

export default defineConfig({
  root,
  test: {
    projects: [
      { root, test: { name: "unit", include: ["test/unit/**/*.test.ts"], sequence: { groupOrder: 0 } } },
      {
        root,
        test: {
          name: "integration",
          include: ["test/integration/**/*.test.ts"],
          globalSetup: ["test/support/global-postgres.ts"],
          sequence: { groupOrder: 1 },
          testTimeout: 60_000,
          hookTimeout: 60_000,
        },
      },
      {
        root,
        test: {
          name: "simulation",
          include: ["test/simulation/**/*.test.ts"],
          testTimeout: 600_000,
          sequence: { groupOrder: 2 },
        },
      },
      {
        root,
        test: {
          name: "infra",
          include: ["test/infra/**/*.test.ts"],
          testTimeout: 120_000,
          hookTimeout: 120_000,
          sequence: { groupOrder: 3 },
        },
      },
      {
        root,
        test: {
          name: "e2e",
          include: ["test/e2e/**/*.test.ts"],
          testTimeout: 600_000,
          hookTimeout: 300_000,
          // whole stacks: after everything else, two at a time, as they mostly wait
          sequence: { groupOrder: 4 },
          maxWorkers: 2,
        },
      },
    ],
  },
});
