import { expect, test } from "vitest";
import { failedMessages } from "../../../infra/local/batch-answer.ts";

const ids = ["a", "b", "c"];
const answered = (payload: string) => ({ ok: true, payload });

test.each([
  ["null", "null"],
  ["an empty object", "{}"],
  ["a null list", '{"batchItemFailures":null}'],
  ["an empty list", '{"batchItemFailures":[]}'],
  ["an object with other keys", '{"statusCode":200}'],
])("%s is complete success", (_, payload) => {
  expect(failedMessages(ids, answered(payload), true)).toEqual([]);
});

test("listed messages stay, the others are deleted", () => {
  const payload = '{"batchItemFailures":[{"itemIdentifier":"b"},{"itemIdentifier":"c"}]}';
  expect(failedMessages(ids, answered(payload), true)).toEqual(["b", "c"]);
});

test.each([
  ["an id not in the batch", '{"batchItemFailures":[{"itemIdentifier":"b"},{"itemIdentifier":"x"}]}'],
  ["an empty id", '{"batchItemFailures":[{"itemIdentifier":""}]}'],
  ["a null id", '{"batchItemFailures":[{"itemIdentifier":null}]}'],
  ["a wrong key", '{"batchItemFailures":[{"messageId":"b"}]}'],
  ["a null entry", '{"batchItemFailures":[null]}'],
  ["no list", '{"batchItemFailures":"b"}'],
  ["no object", '"done"'],
  ["no JSON", "<html>"],
])("%s fails the whole batch", (_, payload) => {
  expect(failedMessages(ids, answered(payload), true)).toEqual(ids);
});

test("an error fails the whole batch, with or without the response type", () => {
  expect(failedMessages(ids, { ok: false, payload: "{}" }, true)).toEqual(ids);
  expect(failedMessages(ids, { ok: false, payload: "{}" }, false)).toEqual(ids);
});

test("without the response type a reported failure is lost", () => {
  expect(failedMessages(ids, answered('{"batchItemFailures":[{"itemIdentifier":"b"}]}'), false)).toEqual([]);
  expect(failedMessages(ids, answered("<html>"), false)).toEqual([]);
});
