import { EVENT_KINDS } from "../requests.ts";
import { bad, id, list, object, ok, operation, page, query, text } from "./parts.ts";

export const eventPaths = {
  "/events": {
    get: {
      ...operation("Lists what happened, newest first unless asked otherwise", {
        200: ok("A page", list("Event")),
        400: bad(),
      }),
      parameters: [
        ...page(),
        query("direction", { enum: ["asc", "desc"], default: "desc" }),
        query("subjectId", { ...id(), description: "Only what happened to this one" }),
      ],
    },
  },
};

export const eventSchemas = {
  Event: object({
    id: id(),
    at: { type: "string", format: "date-time" },
    kind: { enum: EVENT_KINDS },
    subjectId: id(),
    message: text(),
  }),
};
