/* What the seed draws before anything runs: sizes, speeds, sales, habits, and which faults when. */
#ifndef SLUICE_SIM_PLAN_H
#define SLUICE_SIM_PLAN_H

struct sim;

void plan_draw(struct sim *sim);
void plan_faults(struct sim *sim);

#endif
