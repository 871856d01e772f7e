import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { checkSettings } from "../../../infra/aws/check-settings.ts";
import { type Settings, settingsOf, stageNames } from "../../../infra/settings.ts";
import { stringMap, wholeNumber } from "../../../lib/adapters/environment.ts";
import { completeOptions, queueLimit, queueWaitSeconds, renewSeconds } from "../../../lib/define/options.ts";
import { PIPELINE_DEFAULTS, type PipelineColumns, pipelinesFor } from "../../../lib/index.ts";
import { anyText, anyValue } from "../../fuzz/values.ts";
import { codeOr, holds } from "../../support/property.ts";

const OPTIONS = [
  ...Object.keys(PIPELINE_DEFAULTS).filter((name) => name !== "backoff"),
  ...Object.keys(PIPELINE_DEFAULTS.backoff).map((name) => `backoff.${name}`),
];
const hardNumber = fc.constantFrom(
  0,
  -0,
  -1,
  1e-300,
  1e300,
  2 ** 53,
  Number.MAX_VALUE,
  Number.NaN,
  Infinity,
  -Infinity,
  1.5,
);
const impossible = fc.oneof(
  hardNumber,
  fc.double(),
  fc.bigInt(),
  anyValue.filter((value) => value !== null),
);
const optionsWith = (option: string, value: unknown) => {
  const [, inner] = option.split(".");
  return (inner === undefined ? { [option]: value } : { backoff: { [inner]: value } }) as never;
};

describe("any value of an option is taken as a number that all that follows from it can bear, or refused by its name", () => {
  test.each(OPTIONS)("%s", (option) => {
    holds(
      fc.property(impossible, (value) => {
        const got = codeOr(() => completeOptions("p", optionsWith(option, value)));
        if ("code" in got) {
          expect(got.code).toMatch(/^OPTION(_RELATION)?$/);
          expect(got.message).toContain(option);
          return;
        }
        expect(value).toBeTypeOf("number");
        for (const number of [queueLimit(got.value), queueWaitSeconds(got.value), renewSeconds(got.value) * 1000])
          expect(number > 0 && number < 2 ** 31, `${number}`).toBe(true);
      }),
    );
  });

  test("right ones are taken together", () => {
    const seconds = (min: number, max: number) => fc.double({ min, max, noNaN: true });
    const right = fc.record({
      workers: fc.integer({ min: 2, max: 10_000 }),
      batchSize: fc.integer({ min: 1, max: 10 }),
      heartbeatTickSeconds: seconds(0.001, 10),
      heartbeatTriggerSeconds: seconds(11, 20),
      lockTimeoutSeconds: seconds(30, 1_000_000),
      leaseSeconds: seconds(0.001, 30),
      processTimeoutSeconds: fc.integer({ min: 1, max: 870 }),
      maxAttempts: fc.integer({ min: 1, max: 1_000_000 }),
      backoff: fc.record({ firstSeconds: seconds(0.001, 1), factor: seconds(1, 1000), jitter: seconds(0, 0.99) }),
    });
    holds(
      fc.property(right, (options) => {
        expect(completeOptions("p", options)).toMatchObject({ workers: options.workers });
      }),
    );
  });
});

describe("the definition of a pipeline", () => {
  interface Thing extends PipelineColumns {
    id: string;
    status: string;
  }
  const { state, pipeline } = pipelinesFor<{ things: Thing }, unknown>().on("things");

  test("is refused by its name with any text that cannot be one", () => {
    const one = state({ ready: (eb) => eb("status", "=", "a"), process: ({ apply }) => apply({}) });
    holds(
      fc.property(anyText, (name) => {
        const got = codeOr(() => pipeline(name, { one }));
        expect("code" in got ? got.code : /^[a-z][a-z0-9-]{0,62}$/.test(name)).toBe(
          "code" in got ? "PIPELINE_NAME" : true,
        );
      }),
    );
  });

  test("is refused with a period that no interval can be", () => {
    holds(
      fc.property(impossible, (everySeconds) => {
        const one = state({
          ready: (eb) => eb("status", "=", "a"),
          everySeconds: everySeconds as number,
          process: ({ apply }) => apply({}),
        });
        const got = codeOr(() => pipeline("p", { one }));
        if ("code" in got)
          expect(got).toMatchObject({ code: "OPTION", message: expect.stringContaining("everySeconds") });
        else expect(got.value.states[0]!.everySeconds).toBeLessThanOrEqual(31_536_000);
      }),
    );
  });
});

describe("a variable of the environment", () => {
  test("is a whole number, or refused by its name", () => {
    holds(
      fc.property(fc.oneof(anyText, fc.double().map(String), fc.integer().map(String)), (text) => {
        const got = codeOr(() => wholeNumber("CALLS_IN_FLIGHT", 2, { CALLS_IN_FLIGHT: text }));
        if ("code" in got)
          expect(got).toMatchObject({ code: "ENVIRONMENT", message: expect.stringContaining("CALLS_IN_FLIGHT") });
        else expect(Number.isSafeInteger(got.value) && got.value >= 1).toBe(true);
      }),
    );
  });

  test("is a JSON object of texts, or refused by its name", () => {
    const value = fc.oneof(
      anyText,
      anyValue.map((v) => JSON.stringify(v)),
      fc.dictionary(fc.string(), fc.string()).map((v) => JSON.stringify(v)),
    );
    holds(
      fc.property(value, (text) => {
        const got = codeOr(() => stringMap("URLS", { URLS: text }));
        if ("code" in got) expect(got).toMatchObject({ code: "ENVIRONMENT", message: expect.stringContaining("URLS") });
        else expect(Array.isArray(got.value)).toBe(false);
      }),
    );
  });
});

describe("a setting of a stage", () => {
  const NUMBERS = [
    "schedulePeriodMinutes",
    "memoryMegabytes",
    ...Object.keys(settingsOf("dev").concurrency).map((name) => `concurrency.${name}`),
    "database.minCapacity",
    "database.maxCapacity",
    "database.readers",
    "database.backupRetentionDays",
    "database.autoPauseMinutes",
  ];
  const withValue = (path: string, value: unknown): Settings => {
    const [outer = "", inner] = path.split(".");
    const settings = settingsOf("dev");
    const part = settings[outer as keyof Settings] as object;
    return { ...settings, [outer]: inner === undefined ? value : { ...part, [inner]: value } };
  };

  test.each(NUMBERS)("%s is a number that AWS takes, or refused by its name", (path) => {
    holds(
      fc.property(fc.oneof(hardNumber, fc.integer(), fc.double(), anyValue), (value) => {
        const got = codeOr(() => checkSettings(withValue(path, value)));
        if ("code" in got) expect(got.message).toContain(path.split(".").at(-1));
        else expect(typeof value === "number" && Number.isFinite(value) && value >= 0 && value < 1e6).toBe(true);
      }),
    );
  });

  test.each(stageNames)("those of %s are right", (stage) => {
    expect(() => checkSettings(settingsOf(stage))).not.toThrow();
  });

  test("a stage that is none is refused", () => {
    holds(
      fc.property(anyText, (stage) => {
        const got = codeOr(() => settingsOf(stage));
        expect("code" in got ? got.code : stageNames.includes(stage as never)).toBe(
          "code" in got ? "UNKNOWN_STAGE" : true,
        );
      }),
    );
  });
});
